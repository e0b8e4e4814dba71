"""What several methods use; nothing here belongs to one of them."""
