// Long names on narrow screens.

/** Words that may break at the dots of a layer's name, before the middle of a word. */
export const WordBreak = ({ text }: { text: string }) => (
  <>{text.split(/(?<=[.×_])|(?=\[)/).map((part, i) => [i > 0 && <wbr key={i} />, part])}</>
);
