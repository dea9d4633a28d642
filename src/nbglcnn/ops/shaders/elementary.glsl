// Elementary functions with the polynomials of Cephes' float versions: GLSL's own promise few digits,
// lose NaN on some drivers, and overflow before their result does. NaN is put back by the caller.
const float NOT_A_NUMBER = uintBitsToFloat(0x7fc00000u), INFINITE = uintBitsToFloat(0x7f800000u);
const float HALF_PI = 1.5707963267948966, LOG_2 = 0.6931471805599453;

float odd(float a, float v) { return floatBitsToUint(v) >> 31 == 1u ? -a : a; }

float near_asine(float a) {
  float z = a * a;
  return a + a * z * ((((4.2163199048e-2 * z + 2.4181311049e-2) * z + 4.5470025998e-2) * z + 7.4953002686e-2) * z
    + 1.6666752422e-1);
}

float asine(float v) {
  float a = abs(v);
  if (a > 1.0) return NOT_A_NUMBER;
  return odd(a > 0.5 ? HALF_PI - 2.0 * near_asine(sqrt(0.5 - 0.5 * a)) : near_asine(a), v);
}

float acosine(float v) {
  float a = abs(v);
  if (a > 1.0) return NOT_A_NUMBER;
  if (a <= 0.5) return HALF_PI - near_asine(v);
  float far = 2.0 * near_asine(sqrt(0.5 - 0.5 * a));
  return v > 0.0 ? far : 2.0 * HALF_PI - far;
}

float atangent(float v) {
  float a = abs(v), start = 0.0;
  if (a > 2.414213562373095) { start = HALF_PI; a = -1.0 / a; }
  else if (a > 0.4142135623730950) { start = 0.5 * HALF_PI; a = (a - 1.0) / (a + 1.0); }
  float z = a * a;
  return odd(start + (((8.05374449538e-2 * z - 1.38776856032e-1) * z + 1.99777106478e-1) * z - 3.33329491539e-1) * z * a
    + a, v);
}

float sineh(float v) {
  float a = abs(v), z = v * v;
  if (a < 1.0) return v + v * z * ((2.03721912945e-4 * z + 8.33028376239e-3) * z + 1.66667160211e-1);
  float e = exp(0.5 * a);  // of the half: e to the 89 overflows, half of it doesn't
  return odd(a > 20.0 ? 0.5 * e * e : 0.5 * (e * e - 1.0 / (e * e)), v);
}

float cosineh(float v) {
  float a = abs(v), e = exp(0.5 * a);
  return a > 20.0 ? 0.5 * e * e : 0.5 * (e * e + 1.0 / (e * e));
}

float asineh(float v) {
  float a = abs(v), z = v * v;
  if (a < 0.5) {
    return v + v * z * (((2.0122003309e-2 * z - 4.2699340972e-2) * z + 7.4847586088e-2) * z - 1.6666288134e-1);
  }
  if (a == INFINITE) return v;
  return odd(a > 1500.0 ? log(a) + LOG_2 : log(a + sqrt(z + 1.0)), v);
}

float acosineh(float v) {
  float z = v - 1.0;
  if (z < 0.0) return NOT_A_NUMBER;
  if (z < 0.5) {
    return sqrt(z) * ((((1.7596881071e-3 * z - 7.5272886713e-3) * z + 2.6454905019e-2) * z - 1.1784741703e-1) * z
      + 1.4142135263);
  }
  if (v == INFINITE) return v;
  return v > 1500.0 ? log(v) + LOG_2 : log(v + sqrt(z * (v + 1.0)));
}

float atangenth(float v) {
  float a = abs(v), z = v * v;
  if (a > 1.0) return NOT_A_NUMBER;
  if (a == 1.0) return odd(INFINITE, v);
  if (a > 0.5) return odd(0.5 * log((1.0 + a) / (1.0 - a)), v);
  return v + v * z * ((((1.81740078349e-1 * z + 8.24370301058e-2) * z + 1.46691431730e-1) * z + 1.99782164500e-1) * z
    + 3.33337300303e-1);
}
