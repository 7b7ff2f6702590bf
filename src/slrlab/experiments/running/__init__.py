"""Calls run on executors, their values kept in a store."""
