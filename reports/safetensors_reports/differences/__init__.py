"""Where implementations differ on the same inputs."""
