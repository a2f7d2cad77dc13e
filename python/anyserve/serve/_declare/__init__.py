"""What a deployment declares: its options, and classes of checked fields."""
