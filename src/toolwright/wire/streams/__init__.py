"""What streams tell, as values."""
