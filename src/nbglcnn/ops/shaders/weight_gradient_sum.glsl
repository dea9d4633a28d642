// Adds up the u_parts of weight_gradient.glsl, of u_rows each.
vec4 pixel(ivec4 at) {
  vec4 sum = vec4(0.0);
#if DEPTHWISE
  for (int k = 0; k < u_parts; k++) sum.x += element(x0, u.x[0], ivec4(k, at.x, at.zw));
#else
  for (int k = 0; k < u_parts; k++) sum += texel(x0, u.x[0], ivec4(k * u_rows + at.x, at.yzw));
#endif
  return sum;
}
