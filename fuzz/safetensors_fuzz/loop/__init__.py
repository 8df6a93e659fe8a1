"""The loop: inputs made, implementations asked, answers weighed, mistakes made small and kept."""
