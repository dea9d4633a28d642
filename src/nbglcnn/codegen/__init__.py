"""What operators draw with: GLSL text, uniform slots, weight textures, and the Plan's passes."""
