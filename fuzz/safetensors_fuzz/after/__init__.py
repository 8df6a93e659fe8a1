"""After a finding: seen again, and made a case of the corpus."""
