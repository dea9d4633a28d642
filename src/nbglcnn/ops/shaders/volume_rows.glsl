// How windows go over volumes. The slices of a volume lie one below the other: row y of slice z is row z * height +
// y of the texture's nchw. With DEPTH u_deep has kernel, stride, dilation and padding along depth; there are
// u_slices of the input, of u_height, and in the output a slice has u_rows.
#if DEPTH
#define HEIGHT u_height
#define SLICE(row) over(row, u_rows)
#define ROW(row) ((row) - SLICE(row) * u_rows)
#else
#define HEIGHT u.x[0].nchw.z
#define ROW(row) (row)
#endif
