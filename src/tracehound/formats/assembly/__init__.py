"""The file frames of decoded events, as all formats need them."""
