import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

const gateway = process.env["GATEWAY_URL"] ?? "http://127.0.0.1:8080";

export default defineConfig({
  base: "./",
  plugins: [svelte()],
  build: {
    target: "es2022",
    sourcemap: false,
    assetsInlineLimit: 0,
    rolldownOptions: {
      input: { index: "index.html", host: "host.html", embed: "src/embed.ts" },
      preserveEntrySignatures: "exports-only",
      output: {
        entryFileNames: (chunk) => (chunk.name === "embed" ? "embed.js" : "assets/[name]-[hash].js"),
      },
    },
  },
  server: {
    proxy: {
      "/api/agent/gradio": { target: gateway, rewrite: (path) => path.replace(/^\/api\/agent\/gradio/, "") },
      "/api": gateway,
    },
  },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
