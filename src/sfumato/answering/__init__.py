"""From a question and an open release to an answer: observe, lay out, sort into strata, add up, answer."""
