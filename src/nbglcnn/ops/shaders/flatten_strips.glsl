// flatten.glsl for a tensor in strips.
void main() {
  Layout l = u.x[0];
  ivec2 p = ivec2(gl_FragCoord.xy);
  int last = l.nchw.x * l.nchw.y * l.nchw.z * l.nchw.w - 1, first = (p.y * u_width + p.x) * 4;
  // Past the end the last element is repeated: a read outside the texture has no defined value.
  for (int k = 0; k < 4; k++) {
    float e = flat_element(x0, l, min(first + k, last));
    if (k == 0) o0.x = e; else if (k == 1) o0.y = e; else if (k == 2) o0.z = e; else o0.w = e;
  }
}
