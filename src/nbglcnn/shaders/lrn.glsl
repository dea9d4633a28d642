// Local response normalization: x / (bias + alpha * the sum of squares over neighbouring channels)^beta.
// i[0].x channels before, i[0].y behind; f[3] alpha / size, beta, bias.
vec4 pixel(ivec4 at) {
  Layout l = u.x[0];
  at.zw = min(at.zw, l.frame.zw - 1);
  at.x = min(at.x, l.frame.x - 1);
  ivec4 c = 4 * at.y + ivec4(0, 1, 2, 3);
  int before = u.i[0].x, behind = u.i[0].y;
  vec4 sum = vec4(0.0);
  for (int k = max(c.x - before, 0); k <= min(c.w + behind, l.frame.y - 1); k++) {
    float v = element(x0, l, ivec4(at.x, k, at.zw));
    v *= v;
    sum += vec4(
      k >= c.x - before && k <= c.x + behind ? v : 0.0, k >= c.y - before && k <= c.y + behind ? v : 0.0,
      k >= c.z - before && k <= c.z + behind ? v : 0.0, k >= c.w - before && k <= c.w + behind ? v : 0.0);
  }
  vec4 base = u.f[3].z + u.f[3].x * sum;
  return texel(x0, l, at) / vec4(
    power(base.x, u.f[3].y), power(base.y, u.f[3].y), power(base.z, u.f[3].y), power(base.w, u.f[3].y));
}
