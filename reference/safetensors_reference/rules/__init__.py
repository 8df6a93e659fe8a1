"""The ground floor: the rules, the choices and the codes of the format, as data."""
