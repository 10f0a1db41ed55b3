"""What is wrong with a store, and what to do: deep checks, and reading again and again against digests."""
