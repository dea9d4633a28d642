// The nearest float16, of two the even one. By its bits, since packHalf2x16 may round as it likes and has no rule for
// numbers that are too large.
vec4 activate(vec4 v) {
  uvec4 sign = floatBitsToUint(v) & 0x80000000u, bits = floatBitsToUint(v) & 0x7fffffffu;
  vec4 near = uintBitsToFloat((bits + 0xfffu + (bits >> 13 & 1u)) & 0xffffe000u);
  vec4 small = roundEven(abs(v) * 16777216.0) * 5.9604644775390625e-8;  // multiples of 2^-24, below 2^-14
  near = select(lessThan(bits, uvec4(0x38800000u)), small, near);
  near = select(greaterThanEqual(bits, uvec4(0x477ff000u)), vec4(uintBitsToFloat(0x7f800000u)), near);  // 65520
  return unless_nan(v, uintBitsToFloat(floatBitsToUint(near) | sign));
}
