// Line-break opportunities for long names on narrow screens.

/** Text that may wrap at the dots of a layer's name, rather than inside a word. */
export const WordBreak = ({ text }: { text: string }) => (
  <>{text.split(/(?<=[.×_])|(?=\[)/).map((part, i) => [i > 0 && <wbr key={i} />, part])}</>
);
