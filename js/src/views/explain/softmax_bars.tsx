// Explains one output value of a softmax: a power of e, and its share of the sum of all powers.
import type { SoftmaxTerms } from "../../explain/softmax.ts";
import type { Value } from "../../plan/schema.ts";
import { Contributions } from "./contributions.tsx";

/** The exponentials along the axis as bars. */
export function SoftmaxBars(props: { source: Value; terms: SoftmaxTerms; width: number }) {
  const { source, terms, width } = props;
  return (
    <Contributions
      contributions={terms.exponentials}
      firstChannel={0}
      noun="power"
      text={`e^(x − largest) for each x of ${source.key}`}
      chosen={terms.position}
      width={width}
    />
  );
}
