"""The main job against a real vLLM with a real model, on the CPU: slow, exact, and without a GPU."""
