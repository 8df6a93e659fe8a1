"""A static site of everything that is committed: rules, cases, programs, releases, reports, documents."""
