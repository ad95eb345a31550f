import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["e2e/screenshots.ts"],
    environment: "node",
    globalSetup: "e2e/setup.ts",
    testTimeout: 240_000,
    hookTimeout: 60_000,
  },
});
