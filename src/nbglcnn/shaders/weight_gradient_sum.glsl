// Adds up the parts of weight_gradient.glsl. i[0]: parts, rows of each.
vec4 pixel(ivec4 at) {
  vec4 sum = vec4(0.0);
#if DEPTHWISE
  for (int k = 0; k < u.i[0].x; k++) sum.x += element(x0, u.x[0], ivec4(k, at.x, at.zw));
#else
  for (int k = 0; k < u.i[0].x; k++) sum += texel(x0, u.x[0], ivec4(k * u.i[0].y + at.x, at.yzw));
#endif
  return sum;
}
