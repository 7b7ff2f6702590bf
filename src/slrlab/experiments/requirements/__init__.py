"""What a demand on the risk or the hit rate requires."""
