// A tensor from its elements in row-major order, four a texel; u_width of the staging texture in texels.
vec4 pixel(ivec4 at) {
  vec4 v = vec4(0.0);
  vec2 unit = 1.0 / vec2(textureSize(x0, 0).xy);
  int step = u.o.nchw.z * u.o.nchw.w, c = at.y * 4;
  int index = ((at.x * u.o.nchw.y + c) * u.o.nchw.z + at.z) * u.o.nchw.w + at.w;
  for (int k = 0; k < min(u.o.nchw.y - c, 4); k++, index += step) {
    int texel = index >> 2, line = quotient(texel, u_width);
    float e = lane(FETCH(x0, vec3((vec2(texel - line * u_width, line) + 0.5) * unit, 0.0)), index & 3);
    if (k == 0) v.x = e; else if (k == 1) v.y = e; else if (k == 2) v.z = e; else v.w = e;
  }
  return v;
}
