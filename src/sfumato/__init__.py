"""sfumato: publish a table of people with a stated guarantee, ask it SQL, get every answer with its error."""
