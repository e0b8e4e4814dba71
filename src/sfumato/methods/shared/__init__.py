"""Mathematics that several methods use: pure functions of numbers, no engine, file or clock."""
