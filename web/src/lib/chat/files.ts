// Which files a message may carry, told before anything is sent. The server judges by content, and again.
import limits from "../../../../shared/contract/fixtures/limits.json";

export const FILE_BYTES = limits.file_bytes;
export const FILES_PER_MESSAGE = limits.files_per_message;
export const MESSAGE_CHARS = limits.message_chars;

/** Extension -> types that browsers give such a file; an empty type says nothing. */
const TYPES: Record<string, readonly string[]> = {
  pdf: ["application/pdf"],
  xlsx: ["application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"],
  xlsm: [
    "application/vnd.ms-excel.sheet.macroenabled.12",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
  ],
  json: ["application/json", "text/plain"],
  csv: ["text/csv", "text/plain", "application/vnd.ms-excel", "text/comma-separated-values"],
  tsv: ["text/tab-separated-values", "text/plain", "text/csv"],
  png: ["image/png"],
  jpg: ["image/jpeg"],
  jpeg: ["image/jpeg"],
};

export const ACCEPT = Object.keys(TYPES)
  .map((extension) => `.${extension}`)
  .join(",");

export type Refusal = "FILE_TOO_LARGE" | "FILE_TYPE" | "FILE_EMPTY" | "TOO_MANY_FILES";

export function refusal(
  file: { name: string; size: number; type: string },
  already: number,
  mostBytes: number = FILE_BYTES,
): Refusal | null {
  if (already >= FILES_PER_MESSAGE) return "TOO_MANY_FILES";
  const extension = file.name.includes(".") ? (file.name.split(".").at(-1) ?? "").toLowerCase() : "";
  const types = TYPES[extension];
  // A pasted picture may have a type and no name to speak of.
  const isImage = extension === "" && ["image/png", "image/jpeg"].includes(file.type);
  if (!types && !isImage) return "FILE_TYPE";
  if (
    types &&
    file.type !== "" &&
    file.type !== "application/octet-stream" &&
    !types.includes(file.type.toLowerCase())
  )
    return "FILE_TYPE";
  if (file.size === 0) return "FILE_EMPTY";
  return file.size > mostBytes ? "FILE_TOO_LARGE" : null;
}

export const isImage = (file: { name: string; mime: string }): boolean =>
  file.mime.startsWith("image/") || /\.(png|jpe?g)$/i.test(file.name);
