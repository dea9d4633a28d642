// The icon of a kind of source.
import { PathIcon } from "../../../views/icons.tsx";
import { kindOf } from "../kinds.ts";
import type { Source } from "../records.ts";

export const KindIcon = ({ kind }: Pick<Source, "kind">) => {
  const { icon, iconLine } = kindOf({ kind });
  return <PathIcon d={icon} line={iconLine} />;
};
