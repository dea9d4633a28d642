// The same where the windows are 2×2 pixels beside each other: a fragment's block is one window, which is read once.
// x0 is the pool's input and lies as the output does, x1 its output, x2 the gradient of that.
void main() {
  ivec4 base = origin(), place = ivec4(base.xy, base.zw >> 1);
  o0 = o1 = o2 = o3 = vec4(0.0);
  // Past the last tile, and rows and columns at the end that are in no window.
  if (base.x < 0 || any(greaterThanEqual(place.zw, u.x[1].nchw.zw))) return;
  vec2 here = gl_FragCoord.xy / vec2(textureSize(x0, 0).xy);
  vec4 largest = texel(x1, u.x[1], place), dy = keep(texel(x2, u.x[2], place), base.y);
  vec4 is0 = vec4(equal(FETCH(x0, vec3(here, 0.0)), largest));
  vec4 is1 = vec4(equal(FETCH(x0, vec3(here, 1.0)), largest)) * (1.0 - is0);
  vec4 is2 = vec4(equal(FETCH(x0, vec3(here, 2.0)), largest)) * (1.0 - is0) * (1.0 - is1);
  vec4 is3 = vec4(equal(FETCH(x0, vec3(here, 3.0)), largest)) * (1.0 - is0) * (1.0 - is1) * (1.0 - is2);
  // Not a product: 0 times an infinite gradient is NaN.
  o0 = mix(vec4(0.0), dy, bvec4(is0));
  o1 = mix(vec4(0.0), dy, bvec4(is1));
  o2 = mix(vec4(0.0), dy, bvec4(is2));
  o3 = mix(vec4(0.0), dy, bvec4(is3));
}
