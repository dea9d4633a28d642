// One triangle that covers the viewport; no attributes, so no buffer to bind.
void main() {
  gl_Position = vec4(float(gl_VertexID == 1) * 4.0 - 1.0, float(gl_VertexID == 2) * 4.0 - 1.0, 0.0, 1.0);
}
