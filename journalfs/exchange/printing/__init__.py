"""The text that `artemis data print` writes of a store, from its files."""
