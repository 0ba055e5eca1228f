"""DRA: claims of pods, prepared and given back through their drivers."""
