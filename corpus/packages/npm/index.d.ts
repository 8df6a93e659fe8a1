export type Text = string | { hex: string };
export interface Tensor { name: Text; dtype: string; shape: number[]; nbytes: number; sha256: string }
export interface Content { tensors?: Tensor[]; metadata?: Record<string, Text> | { items: [Text, Text][] } | null; tensor_count?: number }
export interface Expectation { outcome: "accept" | "reject"; codes?: string[]; content?: Content; properties?: string[] }
export interface Case {
  id: string; kind: string; title: string; rules: string[]; level: "must" | "should" | "may";
  features?: string[]; steps: string[]; smoke?: true; heavy?: true; action?: any; budget?: Record<string, number>;
  input: any; expect: Expectation | { choice: string; options: Record<string, Expectation> };
}
/** All of it: version, rules, choices, codes and cases. */
export const corpus: { corpus_version: string; corpus_sha256: string; cases: Case[]; [field: string]: any };
export const cases: Case[];
/** The file of a case; null where it has a folder or nothing. */
export function bytes(item: Case): Buffer | null;
/** Returns the files of a directory input placed at `root`, path -> bytes. */
export function files(item: Case, root: string): Map<string, Buffer>;
