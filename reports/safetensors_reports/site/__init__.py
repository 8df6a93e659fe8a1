"""Static site of the repository: rules, cases, programs, releases, reports and documents."""
