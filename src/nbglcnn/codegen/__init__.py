"""Code generation for operators: GLSL text, uniform slots, weight textures and passes."""
