"""The product's fast code against the slow reference, on real bytes, damaged bytes and invented bytes."""
