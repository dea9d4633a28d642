"""Plans run on local OpenGL. The only folder that imports moderngl."""
