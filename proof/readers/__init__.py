"""Programs that the proof plants as readers to be tested."""
