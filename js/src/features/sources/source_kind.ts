// What is known of a kind of source: its words and icon, which inputs it feeds, how it begins, and the code that runs it.
import type { Input } from "../../plan/schema.ts";
import type { ViewerState } from "../../state.ts";
import type { OpenSource, SourceInstance } from "./input_slot.ts";
import type { Source } from "./records.ts";
import type { SourceFailure } from "./state.ts";

/** A line of Python: the class, and its arguments but for those that are false. */
export type PythonCall = (name: string, ...parts: readonly (string | false)[]) => string;

/** A number of the record that the drawer has a field for. */
export interface NumericField<S extends Source> {
  readonly name: { [F in keyof S]: S[F] extends number ? F : never }[keyof S];
  readonly label: string;
  readonly min?: number;
  readonly max?: number;
  readonly step: number;
}

export interface SourceKind<S extends Source> {
  /** What the drawer calls it. */
  readonly label: string;
  /** A path of 16 by 16 pixels, and the width of its line where that isn't the usual one. */
  readonly icon: string;
  readonly iconStroke?: number;
  /** The current source's name in the bar, if it differs from `label`. */
  readonly title?: (source: S) => string;
  /** The line of Python that does the same; "" where only a page can. */
  readonly pythonLine: (source: S, call: PythonCall) => string;
  /** What has gone wrong: the thing, then the cause, what still works and what to do. */
  readonly failures?: Partial<Record<SourceFailure, readonly [title: string, text: string]>>;
  /** Whether it feeds such an input. */
  readonly accepts: (input: Input) => boolean;
  /** Python alone gives it; a page goes back to it. */
  readonly isPythonOnly?: true;
  /** Begins by a click on its name: others wait for a file, or for a click of their own. */
  readonly startsOnSelect?: true;
  /** People make it in the drawer, which opens with it. */
  readonly opensDrawer?: true;
  /** How the type of its files begins, and the record of one but for its owner and title. */
  readonly file?: { readonly type: string; readonly fields: Partial<S> };
  /** What becomes of the record where another page had it and this one begins it, besides its owner. */
  readonly takeoverFields?: Partial<S>;
  /** Whether there are pictures after each other. */
  readonly canPlay?: (source: S) => boolean;
  /** What the drawer has of it, where it has no part of its own: a sentence, numbers, and the button of `step`. */
  readonly description?: string;
  readonly numericFields?: readonly NumericField<S>[];
  readonly stepLabel?: string;
  /** Feeds its input. */
  readonly open?: OpenSource<S>;
  /** The same of one that feeds no input. */
  readonly openWithoutInput?: (state: ViewerState, source: S) => SourceInstance<S>;
}

export const CHOOSE_ANOTHER = "choose another source";
export const acceptsPictures = ({ fit }: Input): boolean => fit !== "";
export const pythonString = (text: string): string => JSON.stringify(text);
