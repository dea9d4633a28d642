// A function of one tensor, texel by texel. SAME: input and output lie alike, so the texel is the fragment's own.
vec4 pixel(ivec4 at) {
  return activate(texel(x0, u.x[0], ivec4(at.x, at.y, min(at.zw, u.x[0].frame.zw - 1))));
}
