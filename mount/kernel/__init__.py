"""The loop that requests come by, and what answers them."""
