"""Every activation on a panel of settings, beside each other."""
