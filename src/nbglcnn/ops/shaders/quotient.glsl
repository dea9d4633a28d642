// Integers below 2^24 are exact in float32; a quotient of two may be off by one in the last place.
float quotient(float a, float b) {  // toward zero
  float q = trunc(a / b), rest = abs(a) - abs(q * b);
  float away = (a < 0.0) == (b < 0.0) ? 1.0 : -1.0;
  return rest < 0.0 ? q - away : (rest >= abs(b) ? q + away : q);
}
