// Local response normalization: x / (bias + alpha * the sum of squares over neighbouring channels)^beta.
// u_before and u_behind count channels; u_alpha is divided by the size.
vec4 pixel(ivec4 at) {
  Layout l = u.x[0];
  at.zw = min(at.zw, l.nchw.zw - 1);
  at.x = min(at.x, l.nchw.x - 1);
  ivec4 c = 4 * at.y + ivec4(0, 1, 2, 3);
  int before = u_before, behind = u_behind;
  vec4 sum = vec4(0.0);
  for (int k = max(c.x - before, 0); k <= min(c.w + behind, l.nchw.y - 1); k++) {
    float v = element(x0, l, ivec4(at.x, k, at.zw));
    v *= v;
    sum += vec4(
      k >= c.x - before && k <= c.x + behind ? v : 0.0, k >= c.y - before && k <= c.y + behind ? v : 0.0,
      k >= c.z - before && k <= c.z + behind ? v : 0.0, k >= c.w - before && k <= c.w + behind ? v : 0.0);
  }
  vec4 base = u_bias + u_alpha * sum;
  return texel(x0, l, at) / vec4(
    power(base.x, u_beta), power(base.y, u_beta), power(base.z, u_beta), power(base.w, u_beta));
}
