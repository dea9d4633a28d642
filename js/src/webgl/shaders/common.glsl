// For the shaders that look at values: what is a number, and how to walk along a map.
// Bits are looked at, since drivers fold isnan() and v != v away.
// What is shown has an nchw of its own, as a value is written: `o` holds those of x0 to x3 in these passes.
ivec4 shown_as(int k) {
  return k < 2 ? (k == 0 ? u.o.nchw : u.o.tile) : (k == 2 ? u.o.block : u.o.phase);
}

const float BIG = 3.402823466e38;

bool is_nan(float v) { return (floatBitsToUint(v) & 0x7fffffffu) > 0x7f800000u; }
bool is_inf(float v) { return (floatBitsToUint(v) & 0x7fffffffu) == 0x7f800000u; }
bvec4 finite(vec4 v) {
  return lessThan(floatBitsToUint(v) & 0x7fffffffu, uvec4(0x7f800000u));
}
