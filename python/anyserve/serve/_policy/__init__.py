"""The policy process: runs a router and a scaling policy of the user's own, and answers the server's questions to them."""
