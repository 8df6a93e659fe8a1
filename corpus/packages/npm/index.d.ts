export type Text = string | { hex: string };
export interface Tensor { name: Text; dtype: string; shape: number[]; nbytes: number; sha256: string }
export interface Content { tensors?: Tensor[]; metadata?: Record<string, Text> | { items: [Text, Text][] } | null; tensor_count?: number }
export interface Expectation { outcome: "accept" | "reject"; codes?: string[]; content?: Content; properties?: string[] }
export interface Case {
  id: string; kind: string; title: string; rules: string[]; level: "must" | "should" | "may";
  features?: string[]; steps: string[]; smoke?: true; heavy?: true; action?: any; budget?: Record<string, number>;
  input: any; expect: Expectation | { choice: string; options: Record<string, Expectation> };
}
/** The whole manifest: version, rules, choices, codes and cases. */
export const corpus: { corpus_version: string; corpus_sha256: string; cases: Case[]; [field: string]: any };
export const cases: Case[];
/** Returns the file of a case, or null if the case has a folder or no input. */
export function bytes(item: Case): Buffer | null;
/** Returns the files of a directory input that will be placed at `root`, as a map from paths to bytes. */
export function files(item: Case, root: string): Map<string, Buffer>;
