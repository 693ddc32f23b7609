"""Objects of buckets (S3, Google Cloud Storage, Azure) and of web servers: their URLs, listings, bytes and errors."""
