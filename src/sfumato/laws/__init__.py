"""The laws: how rows are drawn, answered, foreseen, attacked and checked."""
