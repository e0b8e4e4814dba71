"""How small a p-value is stated: below, it is a bound."""

SMALLEST_P = 1e-300
