"""HTTP/1.1 messages: requests to our servers, and answers to our clients."""
