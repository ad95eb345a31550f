// Files through the stock client, to the byte, and what is refused (GRADIO-PROTOCOL §8).
import { randomUUID } from "node:crypto";
import { request } from "node:http";
import { ALICE, BOB, P, ask, connect, conversation, echoed, errorOf, msg, need, options, prepare_files, same } from "../lib.mjs";

const LIMIT = 10 * 1024 * 1024;
const pdf = (bytes, name = "отчёт.pdf") => new File(["%PDF-1.7\n", new Uint8Array(bytes - 9).fill(7)], name, { type: "application/pdf" });
const bytes = (...values) => new Uint8Array(values);

/** As a Gradio app's upload component does it. */
async function uploaded(app, file) {
  const [data] = await app.upload(await prepare_files([file]), options.base, undefined, 2 * LIMIT);
  need(data?.path, `nothing came of ${file.name}`);
  return data;
}

/** The refusal of a file: status and text. */
async function refusal(app, file) {
  const { error } = await app.upload_files(options.base, [file]);
  need(error, `${file.name} was taken`);
  const [, status, text] = /^HTTP (\d+): (.*)$/s.exec(error) ?? [];
  return { status: Number(status), text };
}

/** Sends a file in chunks and never ends it: the answer must come all the same, if the file is too large. */
function endless(size) {
  const boundary = randomUUID();
  const url = new URL(`${options.base}${P}/upload`);
  return new Promise((resolve, reject) => {
    const sending = request(url, { method: "POST", headers: { ...ALICE, "Content-Type": `multipart/form-data; boundary=${boundary}` } });
    const timer = setTimeout(() => reject(new Error("no answer while the file is still on its way")), 10_000);
    sending.on("response", (answer) => {
      clearTimeout(timer);
      let text = "";
      answer.on("data", (part) => (text += part)).on("close", () => resolve({ status: answer.statusCode, text }));
      answer.on("end", () => sending.destroy());
    });
    sending.on("error", (error) => (clearTimeout(timer), reject(error)));
    sending.write(`--${boundary}\r\nContent-Disposition: form-data; name="files"; filename="a.pdf"\r\n\r\n%PDF-1.7\n`);
    sending.write(Buffer.alloc(size - 9, 7));
  });
}

export default {
  async a_file_of_exactly_the_limit_goes_with_a_message() {
    const app = await connect();
    const data = await uploaded(app, pdf(LIMIT));
    const { message } = echoed(await ask(app, [msg("echo", [data]), conversation(), null]));
    same([message.files.length, message.files[0].name, message.files[0].size], [1, "отчёт.pdf", LIMIT]);
    app.close();
  },
  async one_byte_more_is_refused_with_the_limit() {
    const app = await connect();
    const { status, text } = await refusal(app, pdf(LIMIT + 1));
    same(status, 413);
    need(text.includes(`maximum allowed size of ${LIMIT} bytes`), text);
    app.close();
  },
  async what_is_too_large_is_refused_while_it_comes_in() {
    const { status, text } = await endless(LIMIT + 1);
    same(status, 413);
    need(text.includes(String(LIMIT)), text);
  },
  async programs_and_false_names_are_refused_with_the_formats() {
    const app = await connect();
    const files = [
      [new File([bytes(0x4d, 0x5a, 0x90, 0)], "report.pdf"), "a program"],
      [new File([bytes(0x4d, 0x5a, 0x90, 0)], "setup.exe"), "a program"],
      [new File(["%PDF-1.7\n"], "photo.png"), "PDF"],
      [new File(["<html>%PDF-1.7\n"], "page.pdf"), "web page"],
      [new File(["GIF89a%PDF-1.7\n"], "both.pdf"), "image of another kind"],
    ];
    for (const [file, said] of files) {
      const { status, text } = await refusal(app, file);
      same(status, 415, file.name);
      const { code, detail } = JSON.parse(text);
      same(code, "FILE_TYPE", file.name);
      need(detail.includes(said) && detail.includes("PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG"), `${file.name}: ${detail}`);
    }
    app.close();
  },
  async names_that_climb_stay_where_they_are() {
    const app = await connect();
    for (const name of ["../../etc/passwd.csv", "..\\..\\boot.csv", "/etc/cron.d/x.csv", "%2e%2e%2fx.csv"]) {
      const { files } = await app.upload_files(options.base, [new File(["a,b\n1,2\n"], name)]);
      need(files?.length === 1, `${name} was refused`);
      const [folder, file, ...rest] = files[0].split("/");
      need(rest.length === 0 && folder && file && file !== ".." && !file.includes("\\"), `${name} became ${files[0]}`);
    }
    app.close();
  },
  async another_users_file_is_not_there() {
    const [alice, bob] = [await connect(), await connect({ headers: BOB })];
    const data = await uploaded(alice, new File(["a,b\n1,2\n"], "a.csv"));
    const out = await ask(bob, [msg("echo", [data]), conversation(), null]);
    same(errorOf(out.values)?.code, "NOT_FOUND");
    same((await fetch(`${options.base}${P}/file=${data.path}`, { headers: BOB })).status, 403);
    same((await fetch(`${options.base}${P}/file=${data.path}`, { headers: ALICE })).status, 200);
    alice.close();
    bob.close();
  },
};
