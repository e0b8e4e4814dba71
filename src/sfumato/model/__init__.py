"""The nouns: `public` may leave the house, `private` may not."""
